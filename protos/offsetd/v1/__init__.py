"""The contract: package `offsetd.v1`, generated from the .proto files beside it."""
