/* Ends what lanes_simd.h began, and the macros of an instruction set. */
#undef V
#undef VI
#undef S
#undef SI
#undef FUSED
#undef PARTS
#undef W
#undef NAME
#undef TARGET
