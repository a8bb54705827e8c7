#!/bin/sh /etc/rc.common
# Put this in /etc/init.d/@id@, mode 755: /etc/init.d/@id@ enable && /etc/init.d/@id@ start
# shellcheck disable=SC2034  # read by rc.common
START=95 STOP=05 USE_PROCD=1

start_service() {
    procd_open_instance
    procd_set_param command @words@
    procd_set_param respawn 3600 5 0
    procd_set_param stdout 1
    procd_set_param stderr 1
    procd_set_param term_timeout 90
    procd_close_instance
}
