# Chakra traces, which are written with protobuf. Without it `ringside trace --chakra` names the
# package to install.
find_package(Protobuf 3.12)
if(Protobuf_FOUND AND TARGET protobuf::libprotobuf AND TARGET protobuf::protoc)
  set(folder ${PROJECT_SOURCE_DIR}/experiments/tools/chakra/protobuf)
  protobuf_generate_cpp(sources headers ${folder}/et_def.proto)
  # Generated sources are compiled without our warnings.
  add_library(tools_chakra_messages STATIC ${sources} ${headers})
  target_include_directories(tools_chakra_messages SYSTEM PUBLIC ${PROJECT_BINARY_DIR})
  target_link_libraries(tools_chakra_messages PUBLIC protobuf::libprotobuf)
  target_compile_options(tools_chakra_messages PRIVATE -w)
  target_sources(tools_chakra PRIVATE ${folder}/trace_files.cc)
  target_link_libraries(tools_chakra PRIVATE tools_chakra_messages)
  set(RINGSIDE_HAS_PROTOBUF ON)
else()
  message(STATUS "Left out: Chakra traces, as there is no protobuf")
  target_sources(tools_chakra PRIVATE experiments/tools/chakra/absent/trace_files.cc)
endif()
