"""One page: it has a job run, and waits for it."""

from django.http import HttpRequest, JsonResponse
from django.urls import path
from orders.jobs import count_orders
from orders.views import make_order, show_run


def count_now(request: HttpRequest) -> JsonResponse:
    run = count_orders.run_now().wait(timeout=20)
    return JsonResponse({"status": run.status, "result": run.result})


urlpatterns = [
    path("count", count_now),
    path("orders", make_order),
    path("runs/<int:number>", show_run),
]
