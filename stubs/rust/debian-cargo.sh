#!/usr/bin/env bash
# Runs cargo on this crate without crates.io, with the crates that Debian packages. The product is in build/rust of the
# repository, unless CARGO_TARGET_DIR says another place.
#
#   stubs/rust/debian-cargo.sh test
#
# Needs cargo (Debian's, or rustup's), librust-futures-util-dev, librust-h2-dev, librust-percent-encoding-dev, librust-prost-dev,
# librust-prost-types-dev, librust-prost-build-dev, librust-serde-json-dev, librust-base64-dev and librust-tokio-dev.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
registry=/usr/share/cargo/registry
# rustup's cargo may lead the path and have no toolchain.
cargo --version >/dev/null 2>&1 || PATH=/usr/bin:$PATH
if ! cargo --version >/dev/null 2>&1 || ! compgen -G "$registry/h2-0.3.*" >/dev/null ||
  ! compgen -G "$registry/prost-build-0.11.*" >/dev/null || ! compgen -G "$registry/serde_json-1.*" >/dev/null; then
  echo "Expected cargo and Debian's crates, got not all of them: apt-get install cargo librust-base64-dev librust-futures-util-dev librust-h2-dev" \
    "librust-percent-encoding-dev librust-prost-build-dev librust-prost-dev librust-prost-types-dev librust-serde-json-dev" \
    "librust-tokio-dev" >&2
  exit 2
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/../../build/rust}
cd "$here"
cargo --offline --config 'source.crates-io.replace-with="debian"' --config "source.debian.directory=\"$registry\"" "$@"
