#!/usr/bin/env bash
# Writes the Rust code of protos/monopath/v1 to OUTDIR/src/v1, replacing what is there. Silent on success.
#
#   stubs/rust/generate.sh [OUTDIR]        (default: the folder of this script; relative to the caller's directory)
#
# The toolchain is Debian 12's (protobuf-compiler, librust-prost-build-dev): others would make a diff.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "${1:-$here}"
out=$(cd "${1:-$here}" && pwd)
version=$(protoc --version 2>/dev/null) || version=none
if [[ $version != "libprotoc 3.21.12" ]]; then
  echo "Expected 'libprotoc 3.21.12' from 'protoc --version', got '$version': apt-get install protobuf-compiler" >&2
  exit 2
fi

# Made aside and moved in as a whole, so that a failure leaves the old code as it was.
fresh=$(mktemp -d "$out/.generate.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
mkdir "$fresh/v1"
"$here/debian-cargo.sh" run --quiet --release --package monopath-generate -- "$here/../../protos" "$fresh/v1"
mkdir -p "$out/src"
rm -rf "$out/src/v1"
mv "$fresh/v1" "$out/src/v1"
