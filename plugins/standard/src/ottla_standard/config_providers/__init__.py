"""Config providers: values from environment variables, properties files, and files of one value each."""
