"""Views that enqueue a task and show its result."""

# SHOWN: orders/views.py
from django.db import transaction
from django.http import JsonResponse

from orders.jobs import confirm, scheduler
from orders.models import Order


def make_order(request):
    with transaction.atomic():
        order = Order.objects.create(item="pump")
    run = confirm.enqueue(order.pk, key=f"order-{order.pk}")  # after the commit
    return JsonResponse({"run": run.id})


def show_run(request, number):
    run = scheduler.run(number)
    return JsonResponse({"status": run.status, "result": run.result})


# SHOWN: end
