# Installation, by components:
#   runtime      the program, its modules, experiments with their clusters and tables, and pages
#   development  headers and libraries for schemes of your own: find_package(Ringside)
# `cmake --install build --prefix DIR` installs both. scripts/package makes packages of Debian of them.
include(CMakePackageConfigHelpers)
set(private_folder lib/ringside) # core/base/module.cc looks for it beside bin/
set(share_folder share/ringside)
set(page_folder share/doc/ringside)

get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
set(libraries)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL STATIC_LIBRARY AND target MATCHES "^(core|peer|ps)_")
    list(APPEND libraries ${target})
  elseif(type STREQUAL MODULE_LIBRARY AND target MATCHES "^ringside_")
    install(TARGETS ${target} LIBRARY DESTINATION ${private_folder} COMPONENT runtime)
  elseif(type STREQUAL EXECUTABLE AND target MATCHES "^ringside_")
    # A driver of MPI's would make a package need MPI.
    if(RINGSIDE_MPI OR NOT target MATCHES "mpi")
      install(TARGETS ${target} RUNTIME DESTINATION ${private_folder} COMPONENT runtime)
    endif()
  elseif(NOT target STREQUAL ringside)
    continue()
  endif()
  # Libraries that lie where the loader does not look, such as CUDA's.
  get_target_property(rpath ${target} BUILD_RPATH)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  if(rpath)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "${rpath}")
  endif()
endforeach()
install(TARGETS ringside RUNTIME DESTINATION bin COMPONENT runtime)

# Schemes that PyTorch runs.
install(DIRECTORY experiments/python/ringside_peers DESTINATION ${private_folder}/peers
        COMPONENT runtime FILES_MATCHING PATTERN *.py PATTERN __pycache__ EXCLUDE)
# Paths in these files are relative to the files.
install(DIRECTORY experiments/ DESTINATION ${share_folder}/experiments COMPONENT runtime
        FILES_MATCHING PATTERN *.toml PATTERN runner EXCLUDE PATTERN tools EXCLUDE PATTERN python EXCLUDE)
install(DIRECTORY experiments/plugins DESTINATION ${share_folder}/experiments COMPONENT runtime
        FILES_MATCHING PATTERN *.cc)
# Pages name experiments by paths, and the quickstart reads the text of the folder.
install(DIRECTORY docs DESTINATION ${share_folder} COMPONENT runtime)
install(FILES README.md CONTRIBUTING.md SECURITY.md DESTINATION ${share_folder} COMPONENT runtime)
install(FILES experiments/README.md DESTINATION ${share_folder}/experiments COMPONENT runtime)
install(FILES LICENSE CITATION.cff cmake/debian/copyright DESTINATION ${page_folder} COMPONENT runtime)

# Headers, by the paths that sources include. Those of modules need headers of other projects that nothing else needs.
install(DIRECTORY core peer ps DESTINATION include/ringside COMPONENT development
        FILES_MATCHING PATTERN *.h PATTERN module EXCLUDE PATTERN simgrid EXCLUDE
        PATTERN core/device/cuda/kernels EXCLUDE PATTERN core/device/cuda/runtime EXCLUDE)

install(FILES ${plugin_headers}/ringside/plugin.h ${plugin_headers}/ringside/headers.h
        DESTINATION include/ringside/ringside COMPONENT development)

# Options that every source of a plug-in needs, without libraries. The bits of an elementwise
# operation must not depend on where in a vector loop an element stands.
add_library(ringside_headers INTERFACE)
target_include_directories(ringside_headers INTERFACE $<INSTALL_INTERFACE:include/ringside>)
target_compile_features(ringside_headers INTERFACE cxx_std_20)
target_compile_options(ringside_headers INTERFACE -ffp-contract=off)
target_link_libraries(ringside_headers INTERFACE fmt::fmt nlohmann_json::nlohmann_json)
set_target_properties(ringside_headers PROPERTIES EXPORT_NAME headers)
set(exported ringside_headers)
# Ringside::core, Ringside::peer, Ringside::ps: all libraries of a folder.
foreach(folder core peer ps)
  set(parts ${libraries})
  list(FILTER parts INCLUDE REGEX "^${folder}_")
  add_library(ringside_${folder} INTERFACE)
  target_link_libraries(ringside_${folder} INTERFACE ringside_headers ${parts})
  set_target_properties(ringside_${folder} PROPERTIES EXPORT_NAME ${folder})
  list(APPEND exported ringside_${folder})
endforeach()
foreach(library IN LISTS libraries)
  set_target_properties(${library} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
                        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
endforeach()
install(TARGETS ${exported} ${libraries} EXPORT RingsideTargets
        ARCHIVE DESTINATION ${private_folder} COMPONENT development)

set(package_folder lib/cmake/Ringside)
install(EXPORT RingsideTargets NAMESPACE Ringside:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(cmake/RingsideConfig.cmake.in ${PROJECT_BINARY_DIR}/RingsideConfig.cmake
                              INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
# Nothing is promised between versions, not even of the layout of a struct.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RingsideConfigVersion.cmake
                                 COMPATIBILITY ExactVersion)
install(FILES ${PROJECT_BINARY_DIR}/RingsideConfig.cmake ${PROJECT_BINARY_DIR}/RingsideConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT development)

# Licences of libraries that are compiled into the program, as Debian's packages have them.
foreach(package nlohmann-json3-dev libcli11-dev libcereal-dev libtomlplusplus-dev librandom123-dev
        libxxhash-dev cppzmq-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${page_folder}/licences COMPONENT runtime
            RENAME ${package})
  endif()
endforeach()
if(RINGSIDE_VEGA)
  get_filename_component(vega ${RINGSIDE_VEGA} DIRECTORY)
  file(GLOB vega ${vega}/vl_convert_python-*/licenses/LICENSE)
  foreach(licence IN LISTS vega)
    install(FILES ${licence} DESTINATION ${page_folder}/licences COMPONENT runtime RENAME vl-convert)
  endforeach()
endif()

include(cmake/package.cmake)
