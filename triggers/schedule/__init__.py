"""On a schedule: the clock claims each occurrence once and starts the run of it."""
