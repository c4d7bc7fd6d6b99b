"""What operators see of a running server: metrics, traces, logs. The outermost layer: nothing but `app` knows it."""
