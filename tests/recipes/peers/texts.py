"""What the server of the remote example can call."""


def print_text(text: str) -> None:
    print(text, flush=True)
