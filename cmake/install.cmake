# `cmake --install`: the library, its public headers, the program with its completions, find_package(pare) and pare.pc.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pare)

install(TARGETS pare EXPORT pareTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/pare DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/pare DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# find_package(pare)
install(EXPORT pareTargets NAMESPACE pare:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/pareConfig.cmake.in ${PROJECT_BINARY_DIR}/pareConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pareConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pareConfig.cmake ${PROJECT_BINARY_DIR}/pareConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/torch_and_onnx.cmake DESTINATION ${package_dir})

# pkg-config pare
get_filename_component(torch_library_dir ${TORCH_CPU_LIBRARY} DIRECTORY)
get_filename_component(onnx_library_dir ${ONNX_PROTO_LIBRARY} DIRECTORY)
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/pare.pc.in ${PROJECT_BINARY_DIR}/pare.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pare.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The program, and completions and the man page as it prints them itself.
if(TARGET pare_cli)
  # A libtorch outside the system's folders is found again.
  set_target_properties(pare_cli PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS pare_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(PROGRAMS ${PARE_LIGHT_LIBRARIES} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pare/light)  # cmake/light_start.cmake
  foreach(shell bash zsh fish man)
    install(CODE "execute_process(COMMAND $<TARGET_FILE:pare_cli> completions ${shell}
                                  OUTPUT_FILE ${PROJECT_BINARY_DIR}/completions.${shell} COMMAND_ERROR_IS_FATAL ANY)")
  endforeach()
  install(FILES ${PROJECT_BINARY_DIR}/completions.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME pare)
  install(FILES ${PROJECT_BINARY_DIR}/completions.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _pare)
  install(FILES ${PROJECT_BINARY_DIR}/completions.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME pare.fish)
  install(FILES ${PROJECT_BINARY_DIR}/completions.man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME pare.1)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The Python module, for Debian's Python.
if(TARGET pare_python)
  set(PARE_PYTHON_DIR lib/python3/dist-packages CACHE STRING "Where the Python module is installed, below the prefix")
  install(TARGETS pare_python LIBRARY DESTINATION ${PARE_PYTHON_DIR}/pare)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/pare DESTINATION ${PARE_PYTHON_DIR}
          FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed")
endif()

# `cpack -G DEB` in the build directory: program, library, module, man page, completions in one package.
set(CPACK_PACKAGE_CONTACT "the authors of pare")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS python3-numpy)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libtorch-dev, libonnx-dev, libfmt-dev, nlohmann-json3-dev")
include(CPack)
