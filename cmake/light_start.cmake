# A program that starts without what libtorch is linked to but does not use.
#
# Debian's libtorch names the libraries of OpenCV and FFmpeg as needed and takes no symbol of theirs. With what these need
# in turn, the loader maps and relocates over 200 libraries in every process. Empty libraries of the same names, in a
# directory that the RPATH of the program puts first, are loaded in their place. The program alone has that RPATH: in
# another process, Python's say, somebody may want the real ones.
option(PARE_LIGHT_START "Let the program start without libraries that libtorch does not use" ON)
set(PARE_LIGHT_LIBRARIES "")
if(NOT PARE_LIGHT_START OR PARE_SANITIZE OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  return()
endif()
if(NOT DEFINED PARE_UNUSED_BY_TORCH)
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/unused_libraries.sh ${TORCH_CPU_LIBRARY} "^lib(opencv_|av[cfu]|sw[sr])"
                  OUTPUT_VARIABLE unused OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REPLACE "\n" ";" unused "${unused}")
  set(PARE_UNUSED_BY_TORCH "${unused}" CACHE INTERNAL "libraries that libtorch is linked to but does not use")
endif()

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/light)
file(WRITE ${PROJECT_BINARY_DIR}/light/empty.c.in "")
configure_file(${PROJECT_BINARY_DIR}/light/empty.c.in ${PROJECT_BINARY_DIR}/light/empty.c COPYONLY)
foreach(name IN LISTS PARE_UNUSED_BY_TORCH)
  set(file ${PROJECT_BINARY_DIR}/light/${name})
  add_custom_command(OUTPUT ${file} DEPENDS ${PROJECT_BINARY_DIR}/light/empty.c VERBATIM
                     COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -Wl,-soname,${name} -o ${file}
                             ${PROJECT_BINARY_DIR}/light/empty.c)
  list(APPEND PARE_LIGHT_LIBRARIES ${file})
endforeach()
if(PARE_LIGHT_LIBRARIES)
  add_custom_target(pare_light DEPENDS ${PARE_LIGHT_LIBRARIES})
  add_dependencies(pare_cli pare_light)
  # RPATH, which holds for the libraries of libraries, not RUNPATH.
  target_link_options(pare_cli PRIVATE -Wl,--disable-new-dtags)
  file(RELATIVE_PATH light_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR}/pare/light)
  # One text for the built and the installed program: CMake would pad another with colons, and an empty entry stands for
  # the current directory.
  set_target_properties(pare_cli PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                        INSTALL_RPATH "$ORIGIN/light;$ORIGIN/${light_from_bin}")
endif()
