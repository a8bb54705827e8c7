"""Where there is no process of its own for the engine: one in each worker."""


def post_worker_init(worker):
    from orders.jobs import scheduler

    scheduler.start()


def worker_exit(server, worker):
    from orders.jobs import scheduler

    scheduler.stop()
