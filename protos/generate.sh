#!/usr/bin/env bash
# Writes the Python stubs of protos/monopath/v1 to OUTDIR/monopath/v1, replacing what is there. Silent on success.
#
#   protos/generate.sh OUTDIR        (OUTDIR is relative to the caller's directory)
#
# The toolchain is a pinned old one, in .venv-generate: generated code demands at import at least the protobuf that
# made it, so its age is the floor that users of the stubs must meet.
set -euo pipefail

if [[ $# -ne 1 || -z $1 ]]; then
  echo "Expected one argument, the output directory, got $#" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
toolchain=$root/.venv-generate/bin
if [[ ! -x $toolchain/protoc-gen-mypy ]]; then
  echo "Expected the pinned toolchain in $toolchain, got none: run 'make setup'" >&2
  exit 2
fi

# Made aside and moved in as a whole, so that a failure leaves the old stubs as they were.
fresh=$(mktemp -d "$out/.generate.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
mkdir -p "$fresh/monopath/v1"

protoc() {
  # The mypy plugins name each file they write on stderr; that is kept for a failure.
  (cd "$root/protos" && PATH=$toolchain:$PATH "$toolchain/python" -m grpc_tools.protoc -I . "$@") \
    2>"$fresh/log" || { cat "$fresh/log" >&2; return 1; }
}
sources=$(cd "$root/protos" && ls monopath/v1/*.proto)
# Word splitting is meant: one argument for each file.
# shellcheck disable=SC2086
protoc --python_out="$fresh" --mypy_out="$fresh" $sources
# grpc code only for the file with a service: for the others it would be empty modules that import grpc.
protoc --grpc_python_out="$fresh" --mypy_grpc_out="$fresh" monopath/v1/service.proto
printf '"""Generated from protos/monopath/v1. Do not edit: run `make generate`."""\n' >"$fresh/monopath/v1/__init__.py"

mkdir -p "$out/monopath"
rm -rf "$out/monopath/v1"
mv "$fresh/monopath/v1" "$out/monopath/v1"
