#!/usr/bin/env bash
# Builds the standard library of the guests' target from Debian's sources of exactly this
# rustc's release, where the toolchain does not have it and rustup may not fetch it.
#
#   wasm-sysroot.sh      builds it, or finds the one built before, and prints its folder
#
# Installs nothing and leaves the toolchain alone: packages are fetched through apt's signed
# metadata into a temporary folder, and the result goes to the user's cache.
#
# CLAWHOST_WASM_TARGETS  targets to build, separated by spaces (wasm32-unknown-unknown)
# CLAWHOST_SYSROOT_DIR   where to keep results (XDG_CACHE_HOME/clawhost/wasm-sysroot)
#
# Needs cargo, rustc, apt-get, dpkg-deb, flock. Exits with 3 where there are no such sources.
set -euo pipefail

say() { echo "std for the guests: $*" >&2; }

targets=${CLAWHOST_WASM_TARGETS:-wasm32-unknown-unknown}
rustc=${RUSTC:-rustc}
cargo=${CARGO:-cargo}
release=$("$rustc" -vV | sed -n 's/^release: //p')
commit=$("$rustc" -vV | sed -n 's/^commit-hash: //p' | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}
root=${CLAWHOST_SYSROOT_DIR:-$cache/clawhost/wasm-sysroot}
dest=$root/$release-$commit

# Prints the folder and ends, where an earlier run has built every target asked for.
reuse() {
  [ -f "$dest/.complete" ] || return 0
  for target in $targets; do
    compgen -G "$dest/lib/rustlib/$target/lib/libcore-*.rlib" > /dev/null || return 0
  done
  echo "$dest"
  exit 0
}

reuse
for tool in apt-get apt-cache dpkg-deb flock; do
  command -v "$tool" > /dev/null || { say "there is no $tool on this machine"; exit 3; }
done

# One build at a time: whoever waits here finds the result of the other.
mkdir -p "$root"
exec 9> "$root/.lock"
flock 9
reuse

# Below the cache, so that the last step is a rename within one file system.
work=$(mktemp -d "$root/.building.XXXXXX")
trap 'rm -rf "$work"' EXIT

# 1. A private apt: own lists and cache, Debian's own keyring, the mirror this machine uses.
key=/usr/share/keyrings/debian-archive-keyring.gpg
# shellcheck disable=SC2016  # $(REPO_URI) is apt's, not the shell's
mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' \
  | grep -E '/debian/?$' | sort -u | head -1) || true
[ -n "$mirror" ] || { say "apt has no Debian archive configured"; exit 3; }
mkdir -p "$work"/apt/{etc/apt.conf.d,etc/preferences.d,lists/partial,cache/archives/partial} \
  "$work/deb" "$work/fs" "$work/seed/src"
: > "$work/apt/status"
for suite in trixie trixie-backports; do
  echo "deb [signed-by=$key] ${mirror%/} $suite main"
done > "$work/apt/etc/sources.list"
cat > "$work/apt/apt.conf" << CONF
Dir::Etc "$work/apt/etc";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/apt/lists";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
Acquire::Languages "none";
CONF
# Root's apt drops to a user who cannot enter this folder.
[ "$(id -u)" != 0 ] || echo 'APT::Sandbox::User "root";' >> "$work/apt/apt.conf"
export APT_CONFIG=$work/apt/apt.conf
say "1/3 looking for the sources of rustc $release"
apt-get -qq update >&2

newest() { # the newest version of package $1 that starts with $2
  apt-cache madison "$1" \
    | awk -F'|' -v p="$2" '{gsub(/ /,"",$2); if (index($2,p)==1) print $2}' | sort -Vru | head -1
}
src=$(newest rust-src "$release+dfsg")
[ -n "$src" ] || { say "no Debian suite has rust-src $release"; exit 3; }
packages=("rust-src=$src")
libc=none
case $targets in
  *wasi*)
    libc=$(newest wasi-libc "0.0~git2026")
    [ -n "$libc" ] || { say "no Debian suite has a wasi-libc that fits"; exit 3; }
    packages+=("wasi-libc=$libc")
    ;;
esac
say "2/3 fetching ${packages[*]} (about 45 MB)"
(cd "$work/deb" && apt-get -qq download "${packages[@]}" >&2)
for deb in "$work"/deb/*.deb; do dpkg-deb -x "$deb" "$work/fs"; done
unset APT_CONFIG

# 2. std, as cargo builds it for -Zbuild-std, with the bitcode that LTO needs.
say "3/3 compiling std for $targets (about a minute, once)"
cat > "$work/seed/Cargo.toml" << 'SEED'
[package]
name = "seed"
version = "0.0.0"
edition = "2024"
[profile.release]
panic = "abort"
[workspace]
SEED
echo '#![no_std]' > "$work/seed/src/lib.rs"
sources=$work/fs/usr/src/rustc-$release
sep=$'\x1f'
flags="-Cembed-bitcode=yes"
flags+="${sep}--remap-path-prefix=$sources=/rustc/$release"
flags+="${sep}--remap-path-prefix=$work/target=/target"
flags+="${sep}--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
arguments=()
for target in $targets; do arguments+=(--target "$target"); done
(
  cd "$work/seed"
  # Settings of a build that called this one must not reach std.
  for name in $(compgen -e); do
    case $name in
      CARGO_HOME | CARGO_HTTP_* | CARGO_NET_* | CARGO_REGISTR* | CARGO_SOURCE_*) ;;
      RUSTFLAGS | RUSTC_WRAPPER | RUSTC_WORKSPACE_WRAPPER | MAKEFLAGS | CARGO_*) unset "$name" ;;
    esac
  done
  RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT="$sources/library" \
    CARGO_TARGET_DIR="$work/target" CARGO_ENCODED_RUSTFLAGS="$flags" \
    "$cargo" build --quiet --release "${arguments[@]}" -Zbuild-std=std,panic_abort >&2
)

# 3. The layout rustc looks for.
for target in $targets; do
  lib=$work/out/lib/rustlib/$target/lib
  mkdir -p "$lib"
  cp "$work/target/$target"/release/deps/*.rlib "$lib/"
  rm -f "$lib"/libseed-*
  if [ -d "$work/fs/usr/lib/$target" ]; then # wasi-libc's start files and libc.a
    mkdir -p "$lib/self-contained"
    cp "$work/fs/usr/lib/$target"/{crt1-command.o,crt1-reactor.o,libc.a} "$lib/self-contained/"
  fi
done
printf 'rustc %s %s\nrust-src %s\nwasi-libc %s\ntargets %s\n' \
  "$release" "$commit" "$src" "$libc" "$targets" > "$work/out/.complete"
[ ! -e "$dest" ] || mv "$dest" "$work/replaced"
mv "$work/out" "$dest"
say "kept in $dest"
echo "$dest"
