"""Starts the probes in the processes that tests start. Python imports it by this name from PYTHONPATH."""

import line_probes

line_probes.install_if_wanted()
