"""Estimators and verdicts as pure functions; nothing here measures, reads files or draws.

interval    one arm's replicates: mean with its interval, JMH's pooled error, two modes
compare     an arm against the baseline: ratio, verdict, power, corrections, stopping rule
crossover   verdicts along an axis: where the faster arm changes, and where to look next

All functions take floats or float64 arrays and return numbers or small frozen dataclasses.
Levels are confidence levels of two-sided statements: 0.999 leaves 0.0005 on each side.
"""
