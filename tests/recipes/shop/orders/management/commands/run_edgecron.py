"""The engine of the site, in a process of its own."""

# SHOWN: orders/management/commands/run_edgecron.py
from django.core.management.base import BaseCommand

from orders.jobs import scheduler


class Command(BaseCommand):
    help = "Run the jobs of this site until TERM."

    def handle(self, **options):
        scheduler.run_forever()


# SHOWN: end
