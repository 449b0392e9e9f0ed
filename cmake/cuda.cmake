# The library of kernels for NVIDIA GPUs. Sets `cuda` to what it was built with,
# or to nothing.
set(cuda "")
string(TOLOWER "${FUSED_RNN_CUDA}" wanted)
if(NOT wanted MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR
      "FUSED_RNN_CUDA must be auto, on or off, got ${FUSED_RNN_CUDA}")
endif()
# A TensorFlow without CUDA would never call it.
if(wanted STREQUAL "off" OR
   (wanted STREQUAL "auto" AND NOT tensorflow_has_cuda))
  return()
endif()

if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(wanted STREQUAL "on")
    message(FATAL_ERROR
        "FUSED_RNN_CUDA=on needs nvcc, of CUDA 12 or newer, and there is none "
        "that works with ${CMAKE_CXX_COMPILER}. Put it on the PATH or name it "
        "in the environment variable CUDACXX.")
  endif()
  message(STATUS "No nvcc: without kernels for GPUs")
  return()
endif()

# Of these, those that this nvcc knows; for GPUs that are newer, code that the
# driver compiles.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch
                  OUTPUT_VARIABLE known ERROR_QUIET)
  foreach(architecture 75 80 86 89 90 100 120)
    if(known MATCHES "compute_${architecture}\n")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
      set(newest ${architecture})
    endif()
  endforeach()
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
  if(wanted STREQUAL "on")
    message(FATAL_ERROR "FUSED_RNN_CUDA=on needs CUDA 12 or newer; "
        "${CMAKE_CUDA_COMPILER} is ${CMAKE_CUDA_COMPILER_VERSION}")
  endif()
  message(STATUS "nvcc is older than CUDA 12: without kernels for GPUs")
  return()
endif()
string(REPLACE ";" " " architectures "${CMAKE_CUDA_ARCHITECTURES}")
set(cuda "${CMAKE_CUDA_COMPILER_VERSION} for ${architectures}")
message(STATUS "CUDA ${cuda}")

list(TRANSFORM cuda_kernels PREPEND csrc/core/cuda/ OUTPUT_VARIABLE kernels)
add_library(fused_rnn_cuda MODULE ${cuda_sources} ${kernels}
    csrc/core/cuda/machine.cc csrc/core/cuda/cublas.cc)
set_target_properties(fused_rnn_cuda PROPERTIES
    PREFIX "" OUTPUT_NAME _fused_rnn_cuda
    LIBRARY_OUTPUT_DIRECTORY ${library_dir}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    CUDA_VISIBILITY_PRESET hidden CUDA_RUNTIME_LIBRARY Static)
# As on the CPU, only explicit multiply-adds are fused.
target_compile_options(fused_rnn_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>)
target_include_directories(fused_rnn_cuda SYSTEM PRIVATE
    ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_link_libraries(fused_rnn_cuda PRIVATE fused_rnn_flags ${CMAKE_DL_LIBS})
# The runtime's symbols are not to meet those of another in the process.
target_link_options(fused_rnn_cuda PRIVATE -Wl,--exclude-libs,ALL)
