"""A process of its own for the jobs, beside a server whose workers start no engine."""

# SHOWN: worker.py
from jobs import scheduler

if __name__ == "__main__":
    scheduler.run_forever()
# SHOWN: end
