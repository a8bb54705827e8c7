"""gunicorn: each worker has an engine, with --preload and without."""


# SHOWN: gunicorn.conf.py
def post_worker_init(worker):
    from jobs import scheduler

    scheduler.start()


def worker_exit(server, worker):
    from jobs import scheduler

    scheduler.stop()


# SHOWN: end
