"""The demo that `make run` serves: a made-up game server under `var/`, and its people."""
