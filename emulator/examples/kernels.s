; Small kernels for the example, the documentation and the tests of counters and traces: short enough to count by hand.
; Made into kernels.hsaco with LLVM 22 and the linker of the Rust toolchain:
;   llvm-mc-22 --triple=amdgcn-amd-amdhsa --mcpu=gfx1201 --filetype=obj kernels.s -o kernels.o
;   rust-lld -flavor gnu -shared kernels.o -o kernels.hsaco
	.amdgcn_target "amdgcn-amd-amdhsa--gfx1201"
	.amdhsa_code_object_version 6

	.text
	.globl	scale
	.p2align	8
	.type	scale,@function
; y[i] = a * x[i] for i < n, f32; workgroups of 256
scale:
	s_load_b128 s[4:7], s[0:1], 0x0
	s_load_b64 s[8:9], s[0:1], 0x10
	v_lshl_add_u32 v0, ttmp9, 8, v0
	s_wait_kmcnt 0x0
	v_cmpx_gt_u32_e32 s9, v0
	s_cbranch_execz .Lscale_end
	v_lshlrev_b32_e32 v1, 2, v0
	global_load_b32 v2, v1, s[4:5]
	s_wait_loadcnt 0x0
	v_mul_f32_e32 v2, s8, v2
	global_store_b32 v1, v2, s[6:7]
.Lscale_end:
	s_endpgm
.Lscale_size:
	.size	scale, .Lscale_size-scale
	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel scale
		.amdhsa_kernarg_size 24
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_enable_private_segment 0
		.amdhsa_next_free_vgpr 24
		.amdhsa_next_free_sgpr 16
	.end_amdhsa_kernel

	.text
	.globl	copy
	.p2align	8
	.type	copy,@function
; 16 bytes per work-item from x to y; workgroups of 256
copy:
	s_load_b128 s[4:7], s[0:1], 0x0
	v_lshl_add_u32 v0, ttmp9, 8, v0
	v_lshlrev_b32_e32 v0, 4, v0
	s_wait_kmcnt 0x0
	global_load_b128 v[2:5], v0, s[4:5]
	s_wait_loadcnt 0x0
	global_store_b128 v0, v[2:5], s[6:7]
	s_endpgm
.Lcopy_size:
	.size	copy, .Lcopy_size-copy
	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel copy
		.amdhsa_kernarg_size 16
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_enable_private_segment 0
		.amdhsa_next_free_vgpr 24
		.amdhsa_next_free_sgpr 16
	.end_amdhsa_kernel

	.text
	.globl	gather
	.p2align	8
	.type	gather,@function
; y[i] = the dword `stride` * i bytes into x; workgroups of 256
gather:
	s_load_b128 s[4:7], s[0:1], 0x0
	s_load_b32 s8, s[0:1], 0x10
	v_lshl_add_u32 v0, ttmp9, 8, v0
	v_lshlrev_b32_e32 v1, 2, v0
	s_wait_kmcnt 0x0
	v_mul_lo_u32 v0, v0, s8
	global_load_b32 v2, v0, s[4:5]
	s_wait_loadcnt 0x0
	global_store_b32 v1, v2, s[6:7]
	s_endpgm
.Lgather_size:
	.size	gather, .Lgather_size-gather
	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel gather
		.amdhsa_kernarg_size 24
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_enable_private_segment 0
		.amdhsa_next_free_vgpr 24
		.amdhsa_next_free_sgpr 16
	.end_amdhsa_kernel

	.text
	.globl	count
	.p2align	8
	.type	count,@function
; x[0] += 1 by every work-item
count:
	s_load_b64 s[4:5], s[0:1], 0x0
	v_mov_b32_e32 v1, 0
	v_mov_b32_e32 v2, 1
	s_wait_kmcnt 0x0
	global_atomic_add_u32 v1, v2, s[4:5]
	s_endpgm
.Lcount_size:
	.size	count, .Lcount_size-count
	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel count
		.amdhsa_kernarg_size 8
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_enable_private_segment 0
		.amdhsa_next_free_vgpr 24
		.amdhsa_next_free_sgpr 16
	.end_amdhsa_kernel

	.text
	.globl	rotate
	.p2align	8
	.type	rotate,@function
; two waves of one workgroup: y[i] = (i + 32) mod 64 through LDS, where item i has the dword at `stride` * i; dynamic LDS
rotate:
	s_load_b64 s[4:5], s[0:1], 0x0
	s_load_b32 s8, s[0:1], 0x8
	v_lshlrev_b32_e32 v1, 2, v0
	v_add_nc_u32_e32 v2, 32, v0
	v_and_b32_e32 v2, 63, v2
	s_wait_kmcnt 0x0
	v_mul_lo_u32 v3, v0, s8
	v_mul_lo_u32 v4, v2, s8
	ds_store_b32 v3, v0
	s_wait_dscnt 0x0
	s_barrier_signal -1
	s_barrier_wait -1
	ds_load_b32 v5, v4
	s_wait_dscnt 0x0
	global_store_b32 v1, v5, s[4:5]
	s_endpgm
.Lrotate_size:
	.size	rotate, .Lrotate_size-rotate
	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel rotate
		.amdhsa_kernarg_size 16
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_enable_private_segment 0
		.amdhsa_next_free_vgpr 24
		.amdhsa_next_free_sgpr 16
	.end_amdhsa_kernel

	.text
	.globl	spill
	.p2align	8
	.type	spill,@function
; y[i] = i by way of scratch
spill:
	s_load_b64 s[4:5], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	scratch_store_b32 off, v0, off offset:4
	scratch_load_b32 v2, off, off offset:4
	s_wait_loadcnt 0x0
	s_wait_kmcnt 0x0
	global_store_b32 v1, v2, s[4:5]
	s_endpgm
.Lspill_size:
	.size	spill, .Lspill_size-spill
	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel spill
		.amdhsa_kernarg_size 8
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_private_segment_fixed_size 16
		.amdhsa_enable_private_segment 1
		.amdhsa_next_free_vgpr 24
		.amdhsa_next_free_sgpr 16
	.end_amdhsa_kernel

	.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--gfx1201
amdhsa.kernels:
  - .name: scale
    .symbol: scale.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 16
    .vgpr_count: 24
    .max_flat_workgroup_size: 1024
    .args:
      - { .name: x, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: y, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: a, .offset: 16, .size: 4, .value_kind: by_value }
      - { .name: n, .offset: 20, .size: 4, .value_kind: by_value }
  - .name: copy
    .symbol: copy.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 16
    .vgpr_count: 24
    .max_flat_workgroup_size: 1024
    .args:
      - { .name: x, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: y, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global }
  - .name: gather
    .symbol: gather.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 16
    .vgpr_count: 24
    .max_flat_workgroup_size: 1024
    .args:
      - { .name: x, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: y, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: stride, .offset: 16, .size: 4, .value_kind: by_value }
  - .name: count
    .symbol: count.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 16
    .vgpr_count: 24
    .max_flat_workgroup_size: 1024
    .args:
      - { .name: x, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
  - .name: rotate
    .symbol: rotate.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 16
    .vgpr_count: 24
    .max_flat_workgroup_size: 1024
    .args:
      - { .name: y, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: stride, .offset: 8, .size: 4, .value_kind: by_value }
  - .name: spill
    .symbol: spill.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 16
    .wavefront_size: 32
    .sgpr_count: 16
    .vgpr_count: 24
    .max_flat_workgroup_size: 1024
    .args:
      - { .name: y, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
...
	.end_amdgpu_metadata
