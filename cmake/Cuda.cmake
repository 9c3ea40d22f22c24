# Compiling the card's kernels: nvcc is called by rules of our own, so that CMake need not know the toolkit's version or layout.
find_program(SHARDSIM_NVCC nvcc HINTS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
set(nvcc_found OFF)
if(SHARDSIM_NVCC AND NOT SHARDSIM_SANITIZE)
  set(nvcc_found ON)
endif()
option(SHARDSIM_CUDA "Build the cuda backend (needs nvcc; running it needs a GPU)" ${nvcc_found})
option(SHARDSIM_WARNINGS_ARE_ERRORS "Of the cuda backend; off where its compilers are others than those it was written with" ON)
set(SHARDSIM_CUDA_ARCHITECTURES "80;90;120" CACHE STRING "Cards that kernels are compiled for, as in 90")
if(NOT SHARDSIM_CUDA)
  return()
elseif(NOT SHARDSIM_NVCC)
  message(FATAL_ERROR "SHARDSIM_CUDA needs nvcc: put it on the PATH, set CUDA_HOME, or say -D SHARDSIM_CUDA=OFF")
endif()
cmake_path(GET SHARDSIM_NVCC PARENT_PATH nvcc_folder)
cmake_path(SET SHARDSIM_CUDA_ROOT NORMALIZE ${nvcc_folder}/..)
find_library(SHARDSIM_CUDART NAMES cudart_static HINTS ${SHARDSIM_CUDA_ROOT} PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib
  REQUIRED)
find_path(SHARDSIM_CUDA_INCLUDE cuda_runtime.h HINTS ${SHARDSIM_CUDA_ROOT} PATH_SUFFIXES include targets/x86_64-linux/include
  REQUIRED)

# shardsim_kernels(<objects> FOLDER <folder> ARCHITECTURES <number>... SOURCES <file>...)
# Compiles .cu files for these cards, warnings as errors; <objects> is the list of their object files.
function(shardsim_kernels result)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER" "ARCHITECTURES;SOURCES")
  set(cards "")
  if(SHARDSIM_WARNINGS_ARE_ERRORS)
    set(flags -Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror,-fPIC,-ffp-contract=off,-march=${SHARDSIM_ARCH})
  else()
    set(flags -Xcompiler=-Wall,-Wextra,-fPIC,-ffp-contract=off,-march=${SHARDSIM_ARCH})
  endif()
  foreach(architecture IN LISTS arg_ARCHITECTURES)
    list(APPEND cards -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(JOIN arg_ARCHITECTURES "_" suffix)
  set(objects "")
  foreach(file IN LISTS arg_SOURCES)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/kernels/${file}.${suffix}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FOLDER}/${file} DEPFILE ${object}.d
      COMMENT "Compiling ${arg_FOLDER}/${file} for sm_${suffix}" VERBATIM
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/kernels
      COMMAND ${CCACHE} ${SHARDSIM_NVCC} -std=c++20 -O3 --extended-lambda --expt-relaxed-constexpr
        ${flags} ${cards} -I${PROJECT_SOURCE_DIR}/sim
        -MD -MF ${object}.d -MT ${object} -c ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FOLDER}/${file} -o ${object})
    list(APPEND objects ${object})
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()
