# What plug-ins are compiled with and linked with: the headers below one folder, and a program that shows its symbols.

# include/ in the build folder is what an installation has in include/ringside: the rooms by the paths that sources
# include, and <ringside/plugin.h>.
set(plugin_headers ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${plugin_headers}/ringside)
foreach(room core peer ps)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room} ${plugin_headers}/${room} SYMBOLIC)
endforeach()
file(CONFIGURE OUTPUT ${plugin_headers}/ringside/plugin.h CONTENT "#pragma once
#include \"peer/plugin/plugin.h\"
")
add_custom_target(headers_stamp
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${plugin_headers}/ringside/headers.h
          -P ${PROJECT_SOURCE_DIR}/cmake/headers_stamp.cmake
  BYPRODUCTS ${plugin_headers}/ringside/headers.h
  COMMENT "Hashing headers" VERBATIM)
add_dependencies(core_plugin headers_stamp)
target_include_directories(core_plugin PRIVATE ${plugin_headers})

# A program takes plug-ins if it has all of the libraries that they may call, also what the program itself does not call,
# and shows it to shared libraries.
set(for_plugins core_base core_num core_device core_comm core_nn core_optim core_compress core_data core_models core_plan
    core_observe core_scheme peer_schemes peer_fsdp)
function(ringside_takes_plugins program)
  target_link_libraries(${program} PRIVATE -Wl,--whole-archive ${for_plugins} -Wl,--no-whole-archive)
  set_target_properties(${program} PROPERTIES ENABLE_EXPORTS ON)
endfunction()

# The files that `ringside new scheme` writes are built into the program.
set(new_scheme ${PROJECT_SOURCE_DIR}/experiments/tools/cli/new_scheme)
set(texts)
foreach(name CMakeLists.txt README.md experiment.toml local.cc.in compressor.cc.in gradients.cc.in)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${new_scheme}/${name})
  file(READ ${new_scheme}/${name} text)
  string(APPEND texts "      {\"${name}\", R\"~~~(${text})~~~\"},\n")
endforeach()
# file(GENERATE) takes the text as it is, but for generator expressions.
string(REPLACE "$<" "$<1:$><" texts "${texts}")
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/new_scheme_texts.cc CONTENT
"#include \"experiments/tools/cli/new_scheme_texts.h\"

namespace ringside::tools::cli {

std::span<const NewSchemeText> new_scheme_texts() {
  static constexpr NewSchemeText all[] = {
${texts}  };
  return all;
}

}  // namespace ringside::tools::cli
")
target_sources(tools_cli PRIVATE ${PROJECT_BINARY_DIR}/new_scheme_texts.cc)
