# Compiler, linker and cache settings shared by every target.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header is found by its content, so that a fresh clone still hits the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()
# mold 1.10, Debian's, can begin the read-only part of a program on a page that is not mapped; such a program does not
# start.
find_program(LLD ld.lld)
if(LLD AND NOT PARE_FUZZ)
  add_link_options(-fuse-ld=lld)
endif()
# 2 compile jobs at the most: one translation unit can need over a gigabyte.
set_property(GLOBAL PROPERTY JOB_POOLS compile=2 link=1)
set(CMAKE_JOB_POOL_COMPILE compile)
set(CMAKE_JOB_POOL_LINK link)

# The Python module is made of the same objects as the program.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_compile_options(-fno-semantic-interposition)
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(PARE_SANITIZE)
  add_compile_options(-fsanitize=${PARE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PARE_SANITIZE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${PROJECT_SOURCE_DIR}/cmake/clang_vector.h>")
endif()
if(PARE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # the library reports its coverage; main() comes with each fuzzer
endif()
