#!/sbin/openrc-run
# Put this in /etc/init.d/@id@, mode 755: rc-update add @id@ default && rc-service @id@ start
name=@id@
description="edgecron, scheduled jobs"
supervisor=supervise-daemon
command=@program@
command_args=@args@
respawn_delay=5
respawn_max=0
retry=TERM/90/KILL/5
output_logger="logger -t @id@"
error_logger="logger -t @id@"

depend() {
    need localmount
    use clock logger
    after bootmisc
}
