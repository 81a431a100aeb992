"""Is the table useful? Each metric is a function of `Tables` that returns a `Metric` or a few."""
