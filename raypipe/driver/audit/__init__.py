"""What a precision below fp32 changes, measured in the invocation that used it."""
