"""Generated from protos/monopath/v1. Do not edit: run `make generate`."""
