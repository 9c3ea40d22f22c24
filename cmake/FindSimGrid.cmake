# Finds SimGrid, which Debian ships without a CMake config; its headers need Boost's. Gives the target SimGrid::SimGrid.
find_path(SimGrid_INCLUDE_DIR simgrid/s4u.hpp)
find_path(SimGrid_BOOST_INCLUDE_DIR boost/intrusive_ptr.hpp)
find_library(SimGrid_LIBRARY simgrid)
if(SimGrid_INCLUDE_DIR)
  file(STRINGS ${SimGrid_INCLUDE_DIR}/simgrid/version.h lines REGEX "define SIMGRID_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3" SimGrid_VERSION "${lines}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SimGrid REQUIRED_VARS SimGrid_LIBRARY SimGrid_INCLUDE_DIR SimGrid_BOOST_INCLUDE_DIR
  VERSION_VAR SimGrid_VERSION)
mark_as_advanced(SimGrid_INCLUDE_DIR SimGrid_BOOST_INCLUDE_DIR SimGrid_LIBRARY)
if(SimGrid_FOUND AND NOT TARGET SimGrid::SimGrid)
  add_library(SimGrid::SimGrid UNKNOWN IMPORTED)
  set_target_properties(SimGrid::SimGrid PROPERTIES IMPORTED_LOCATION ${SimGrid_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES "${SimGrid_INCLUDE_DIR};${SimGrid_BOOST_INCLUDE_DIR}")
endif()
