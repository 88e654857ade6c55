# vextract:template
"""Imported by the server that starts scoring processes: what asks a run to end asks its trainer.

Schedulers send SIGTERM to every process of a job. The trainer finishes its step, for which samples are still scored.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
