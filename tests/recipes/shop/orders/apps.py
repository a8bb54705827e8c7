"""The jobs are known to every process of the site, and none is started by that."""

# SHOWN: orders/apps.py
from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class OrdersConfig(AppConfig):
    name = "orders"

    def ready(self):
        autodiscover_modules("jobs")  # Declares the jobs. Every command comes here: start nothing.


# SHOWN: end
