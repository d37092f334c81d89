# The CPU backend, once for each instruction set and type of an activation: the same sources under other flags, dispatched at run time by kernels/dev.c.
# fp32 activations gain nothing from vdpbf16ps: that set has a bf16 variant only.
file(GLOB CPU_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cpu/*.c)

function(pawl_cpu_variant isa act)
  set(name pawl_cpu_${isa}_${act})
  string(TOUPPER ${act} ACT)
  add_library(${name} OBJECT ${CPU_SOURCES})
  # -fno-math-errno lets sqrt be the instruction, which IEEE has correctly rounded. -fwrapv: exponents are added to the bits of floats as integers, and wrap.
  target_compile_options(${name} PRIVATE -fno-math-errno -fwrapv ${ARGN})
  target_compile_definitions(${name} PRIVATE CPU_VARIANT=${isa}_${act} CPU_ACT_${ACT})
  target_link_libraries(${name} PRIVATE OpenMP::OpenMP_C)
  target_sources(pawl_kernels PRIVATE $<TARGET_OBJECTS:${name}>)
endfunction()

pawl_cpu_variant(portable bf16)
pawl_cpu_variant(portable f32)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(AVX2 -mavx2 -mfma -mf16c)
  set(AVX512 ${AVX2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  pawl_cpu_variant(avx2 bf16 ${AVX2})
  pawl_cpu_variant(avx2 f32 ${AVX2})
  pawl_cpu_variant(avx512 bf16 ${AVX512})
  pawl_cpu_variant(avx512 f32 ${AVX512})
  pawl_cpu_variant(avx512bf16 bf16 ${AVX512} -mavx512bf16)
endif()

# `cmake --build DIR --target pawl_bench_kernels`: every op against this machine's peak.
add_executable(pawl_bench_kernels EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/scripts/bench/kernels.c)
target_link_libraries(pawl_bench_kernels PRIVATE pawl_kernels)
