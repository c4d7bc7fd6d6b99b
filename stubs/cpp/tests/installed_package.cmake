# Installs BUILD into a folder of its own and builds CONSUMER with nothing but that.
set(prefix "${BUILD}/tests/prefix")
set(consumer_build "${BUILD}/tests/consumer")
file(REMOVE_RECURSE "${prefix}" "${consumer_build}")
foreach(command IN ITEMS
    "--install;${BUILD};--prefix;${prefix}"
    "-S;${CONSUMER};-B;${consumer_build};-G;${GENERATOR};-DCMAKE_PREFIX_PATH=${prefix};-DSOURCE=${SOURCE}"
    "--build;${consumer_build}")
  execute_process(COMMAND "${CMAKE_COMMAND}" ${command} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
