"""Probes that run under the doctor's own interpreter."""
