#!/usr/bin/env bash
# Runs the go command on this module without a module proxy, with the packages that Debian has. Run in this module's
# folder.
#
#   stubs/go/debian-go.sh test ./...
#
# Needs golang-go, golang-google-grpc-dev, golang-google-protobuf-dev, golang-google-genproto-dev and, for gRPC to be
# able to read today's generated code, golang-github-golang-protobuf-1-5-dev rather than 1-3. They are a GOPATH, from
# before Go's modules; a second one, temporary, holds this module under its import path.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
packages=/usr/share/gocode
if ! command -v go >/dev/null || [[ ! -d $packages/src/google.golang.org/grpc ]] ||
  [[ ! -f $packages/src/github.com/golang/protobuf/proto/wire.go ]]; then
  echo "Expected Go and Debian's packages for it, got not all of them: apt-get install golang-go golang-google-grpc-dev" \
    "golang-google-protobuf-dev golang-google-genproto-dev golang-github-golang-protobuf-1-5-dev" >&2
  exit 2
fi
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
mkdir -p "$own/src/github.com/monopath/monopath/stubs"
ln -s "$here" "$own/src/github.com/monopath/monopath/stubs/go"
cd "$own/src/github.com/monopath/monopath/stubs/go"
# Without its paths a build is found again in the build cache, although the folder is another one each time.
GO111MODULE=off GOPATH=$own:$packages GOFLAGS="-trimpath ${GOFLAGS:-}" go "$@"
