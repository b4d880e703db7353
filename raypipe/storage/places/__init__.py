"""Where stores lie: a file system or a bucket."""
