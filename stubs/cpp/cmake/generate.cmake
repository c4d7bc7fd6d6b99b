# monopath_generate(SOURCES OUTDIR ROOTS dir... PROTOS file... [SERVICES file...])
#
# Has protoc write the C++ of PROTOS, and the gRPC code of SERVICES (some of PROTOS), to OUTDIR, and sets SOURCES to the
# list of the .cc files. Files are given relative to one of ROOTS, which are also where imports are looked for.
function(monopath_generate sources outdir)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "ROOTS;PROTOS;SERVICES")
  set(includes ${arg_ROOTS})
  list(TRANSFORM includes PREPEND "--proto_path=")

  set(inputs "")
  set(code "")
  set(headers "")
  foreach(proto IN LISTS arg_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    list(APPEND code "${outdir}/${stem}.pb.cc")
    list(APPEND headers "${outdir}/${stem}.pb.h")
    foreach(root IN LISTS arg_ROOTS)
      if(EXISTS "${root}/${proto}")
        list(APPEND inputs "${root}/${proto}")
      endif()
    endforeach()
  endforeach()
  set(services COMMAND "${CMAKE_COMMAND}" -E true)
  if(arg_SERVICES)
    foreach(proto IN LISTS arg_SERVICES)
      string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
      list(APPEND code "${outdir}/${stem}.grpc.pb.cc")
      list(APPEND headers "${outdir}/${stem}.grpc.pb.h")
    endforeach()
    set(services COMMAND protobuf::protoc ${includes} "--grpc_out=${outdir}"
      "--plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>" ${arg_SERVICES})
  endif()

  file(MAKE_DIRECTORY "${outdir}")
  add_custom_command(
    OUTPUT ${code} ${headers}
    COMMAND protobuf::protoc ${includes} "--cpp_out=${outdir}" ${arg_PROTOS}
    ${services}
    DEPENDS ${inputs}
    COMMENT "Generating C++ in ${outdir}"
    VERBATIM)
  set(${sources} ${code} PARENT_SCOPE)
endfunction()
