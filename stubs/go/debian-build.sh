#!/usr/bin/env bash
# Builds the programs of this module into OUTDIR, without a module proxy: OUTDIR/monopath-conformance.
#
#   stubs/go/debian-build.sh OUTDIR      (OUTDIR is relative to the caller's directory)
set -euo pipefail

if [[ $# -ne 1 || -z $1 ]]; then
  echo "Expected one argument, the output directory, got $#" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
"$(dirname "${BASH_SOURCE[0]}")/debian-go.sh" build -o "$out/monopath-conformance" ./cmd/conformance
