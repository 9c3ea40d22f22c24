# Run after a test program is linked: writes one CTest test for each of its doctest cases.
cmake_minimum_required(VERSION 3.25)  # a script has no policies of its own; IN_LIST is one
function(cases result)
  execute_process(COMMAND ${executable} --list-test-cases --no-intro --no-version ${ARGN}
    OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "\\;" output "${output}")
  string(REPLACE "\n" ";" output "${output}")
  list(FILTER output EXCLUDE REGEX "^(\\[doctest\\]|====)")
  list(FILTER output EXCLUDE REGEX "^$")
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

cases(all)
cases(matrix --test-suite=matrix)
set(text "")
foreach(case IN LISTS all)
  string(REPLACE "," "\\," filter "${case}")
  set(labels ${program})
  if(case IN_LIST matrix)
    list(APPEND labels matrix)
  endif()
  set(name "[==[${program}: ${case}]==]")
  string(APPEND text "add_test(${name} [==[${executable}]==] [==[--test-case=${filter}]==] --no-intro)\n"
    "set_tests_properties(${name} PROPERTIES WORKING_DIRECTORY [==[${folder}]==] LABELS \"${labels}\" TIMEOUT 600)\n")
endforeach()
file(WRITE ${list} "${text}")
