"""Reads training scripts, notebooks, configurations and launch lines; executes nothing."""
