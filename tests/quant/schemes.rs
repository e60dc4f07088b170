//! Names, layouts and recipes: what is accepted, what is refused with both numbers, and that sizes are bits × weights and the scales.

use zynfer::quant::{Choice, Class, GROUPS, Matrix, Recipe, Scheme, Search, encode};

use crate::Aligned;

#[test]
fn names_read_back_and_others_are_refused() {
    let all = GROUPS.iter().flat_map(|g| [Scheme::Int8(*g), Scheme::Int4(*g), Scheme::Int4Min(*g)]);
    for scheme in all.chain([Scheme::Bf16, Scheme::Int8Row, Scheme::Fp8]) {
        assert_eq!(scheme.to_string().parse(), Ok(scheme));
    }
    assert_eq!(("int4".parse(), "int4m".parse()), (Ok(Scheme::Int4(32)), Ok(Scheme::Int4Min(32))));
    for text in [
        "",
        "int4:",
        "int4:0",
        "int4:33",
        "int4:032",
        "int4:256",
        "int8:16",
        "bf16:32",
        "fp8",
        "fp8-e4m3:32",
        "INT4",
        "int5",
        "int4:64:1",
        // Only kept.
        "int8m:32",
        "int8k:16",
        "int8mk:32",
        "int4mk:32",
        "source",
    ] {
        let error = text.parse::<Scheme>().expect_err(text).to_string();
        assert!(error.starts_with(&format!("{text:?} is no scheme: bf16, int8, ")), "{error}");
    }
}

#[test]
fn sizes_are_the_bits_of_the_codes_and_of_the_scales() {
    for (n, k) in [(1, 128), (3, 256), (1024, 1024), (151_936, 1024), (4096, 768)] {
        for (scheme, bits, scales, scale_bits) in [
            (Scheme::Int8Row, 8, 1, 32),
            (Scheme::Fp8, 8, 1, 32),
            (Scheme::Int8(32), 8, k / 32, 16),
            (Scheme::Int4(64), 4, k / 64, 16),
            (Scheme::Int4Min(128), 4, 2 * (k / 128), 16),
            (Scheme::Int8Min(32), 8, 2 * (k / 32), 16),
            // For 256 elements an f16 and a byte for each group.
            (Scheme::Int8K(16), 8, k / 256, 16 + 8 * 16),
            (Scheme::Int8K(32), 8, k / 256, 16 + 8 * 8),
            (Scheme::Int8MinK(16), 8, 2 * (k / 256), 16 + 8 * 16),
            (Scheme::Int4MinK(32), 4, 2 * (k / 256), 16 + 8 * 8),
            (Scheme::Bf16, 16, 0, 0),
        ] {
            if scheme.group().is_some() && k % 256 != 0 {
                continue;
            }
            let layout = scheme.layout(&[n, k]).unwrap();
            let exact = n * (k * bits + scales * scale_bits) / 8;
            assert!(
                layout.bytes >= exact && layout.bytes < exact + 512,
                "{scheme} [{n}, {k}]: {} of {exact}",
                layout.bytes
            );
            assert_eq!(layout.codes, 0..n * k * bits / 8);
            assert!(layout.scales.start % 256 == 0 || layout.scales.is_empty());
            assert!(layout.minimums.start % 256 == 0 || layout.minimums.is_empty());
            assert_eq!(layout.bytes, layout.minimums.end);
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_both_numbers() {
    let text = |scheme: Scheme, shape: &[usize]| scheme.layout(shape).unwrap_err().to_string();
    assert_eq!(text(Scheme::Int4(64), &[8, 96]), "int4:64: 96 elements in a row, a multiple of 64 expected");
    assert_eq!(text(Scheme::Int8(128), &[8, 64]), "int8:128: 64 elements in a row, a multiple of 128 expected");
    assert_eq!(text(Scheme::Int8(7), &[8, 70]), "int8:7: there are no groups of this size");
    assert_eq!(text(Scheme::Int4Min(32), &[8]), "int4m:32: shape [8] found, [N, K] expected");
    assert_eq!(text(Scheme::Int4MinK(16), &[8, 256]), "int4mk:16: there are no groups of this size");
    assert_eq!(text(Scheme::Int8K(64), &[8, 256]), "int8k:64: there are no groups of this size");
    assert_eq!(text(Scheme::Fp8, &[0, 32]), "fp8-e4m3: shape [0, 32] found, [N, K] expected");
    assert_eq!(text(Scheme::Int8K(16), &[8, 128]), "int8k:16: 128 elements in a row, a multiple of 256 expected");
    assert_eq!(text(Scheme::Int4MinK(64), &[8, 64]), "int4mk:64: 64 elements in a row, a multiple of 256 expected");
    let kept = encode(Scheme::Int8K(16), Search::Nearest, &[0.0; 256], 256).unwrap_err().to_string();
    assert_eq!(kept, "int8k:16: kept as a source has it, never encoded");
    let huge = usize::MAX / 64 + 1;
    for scheme in [Scheme::Bf16, Scheme::Int8Row, Scheme::Int4(32), Scheme::Int4Min(32)] {
        assert!(text(scheme, &[huge, 64]).ends_with("[N, K] expected"));
        assert!(text(scheme, &[64, huge / 32 * 32]).ends_with("[N, K] expected"));
    }
    let object = Aligned::new(&[0; 1024]);
    let text = |bytes| Matrix::new(Scheme::Int4(32), &[4, 64], bytes).unwrap_err().to_string();
    // 128 bytes of codes, zeros to 256, 8 scales of 2 bytes.
    assert_eq!(text(&object.bytes()[..271]), "int4:32 [4, 64]: 271 bytes found, 272 expected");
    assert_eq!(text(&object.bytes()[2..274]), "int4:32 [4, 64]: not at a multiple of 4 in memory");
    assert!(Matrix::new(Scheme::Int4(32), &[4, 64], &object.bytes()[..272]).is_ok());
}

#[test]
fn classes_kept_apart_have_their_own_scheme() {
    let recipe = Recipe::new(Scheme::Int4(64)).keep("lm_head=bf16,down=int8").unwrap();
    let of = |name: &str, tied| recipe.choice_of(name, &[64, 64], tied);
    assert_eq!(of("model.layers.3.mlp.down_proj.weight", false), Choice::Scheme(Scheme::Int8Row));
    assert_eq!(of("model.layers.3.mlp.up_proj.weight", false), Choice::Scheme(Scheme::Int4(64)));
    assert_eq!(of("lm_head.weight", false), Choice::Scheme(Scheme::Bf16));
    assert_eq!(of("model.embed_tokens.weight", false), Choice::Scheme(Scheme::Int4(64)));
    assert_eq!(of("model.embed_tokens.weight", true), Choice::Scheme(Scheme::Bf16));
    assert_eq!(recipe.choice_of("model.norm.weight", &[64], true), Choice::Scheme(Scheme::Bf16));
    let both = Recipe::new(Scheme::Fp8).keep("lm_head=source,embed=int8:32").unwrap();
    assert_eq!(both.choice_of("model.embed_tokens.weight", &[64, 64], true), Choice::Scheme(Scheme::Int8(32)));
    assert_eq!(both.choice_of("lm_head.weight", &[64, 64], false), Choice::Source);
    let source = Recipe::from(Choice::Source).keep("up=int8").unwrap();
    assert_eq!(source.choice_of("model.norm.weight", &[64], true), Choice::Source);
    assert_eq!(source.choice_of("model.layers.3.mlp.up_proj.weight", &[64, 64], true), Choice::Scheme(Scheme::Int8Row));
    assert_eq!(Class::of("model.layers.0.self_attn.q_norm.weight"), None);
    let refused = |text: &str| Recipe::new(Scheme::Bf16).keep(text).unwrap_err().to_string();
    assert_eq!(refused("down"), "\"down\": CLASS=SCHEME expected");
    assert_eq!(
        refused("head=bf16"),
        "\"head\" is no class of matrices: embed, lm_head, attn_q, attn_k, attn_v, attn_o, gate, up, down expected"
    );
    assert_eq!(refused("up=bf16,up=int8"), "up: named twice");
    let other = refused("up=int9");
    assert!(
        other.starts_with("\"int9\" is no scheme") && other.ends_with("or source, which changes no value"),
        "{other}"
    );
}
