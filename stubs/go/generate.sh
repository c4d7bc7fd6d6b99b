#!/usr/bin/env bash
# Writes the Go stubs of protos/monopath/v1 to OUTDIR/monopath/v1, replacing what is there. Silent on success.
#
#   stubs/go/generate.sh [OUTDIR]        (default: the folder of this script; relative to the caller's directory)
#
# The toolchain is Debian 12's (protobuf-compiler, protoc-gen-go, protoc-gen-go-grpc): the generated code names its
# versions, so others would make a diff, and code of these old ones works with old and new releases of protobuf and gRPC
# for Go.
set -euo pipefail

# Not the path of a link: debian-go.sh calls this folder by another name.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd "$here/../.." && pwd)
mkdir -p "${1:-$here}"
out=$(cd "${1:-$here}" && pwd)

expect() {
  local wanted=$1 got
  shift
  got=$("$@" 2>/dev/null) || got="none"
  if [[ $got != "$wanted" ]]; then
    echo "Expected '$wanted' from '$*', got '$got': apt-get install protobuf-compiler protoc-gen-go protoc-gen-go-grpc" >&2
    exit 2
  fi
}
expect "libprotoc 3.21.12" protoc --version
expect "protoc-gen-go v1.28.1" protoc-gen-go --version
expect "protoc-gen-go-grpc 1.0" protoc-gen-go-grpc --version

# Made aside and moved in as a whole, so that a failure leaves the old stubs as they were.
fresh=$(mktemp -d "$out/.generate.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
module=github.com/monopath/monopath/stubs/go
cd "$root/protos"
protoc -I . --go_out="$fresh" --go_opt=module="$module" --go-grpc_out="$fresh" --go-grpc_opt=module="$module" \
  monopath/v1/*.proto
mkdir -p "$out/monopath"
rm -rf "$out/monopath/v1"
mv "$fresh/monopath/v1" "$out/monopath/v1"
