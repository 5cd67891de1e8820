//! The tables of claims and of mechanisms as readers see them.

use std::fs;

use figures::draw;
use insta::assert_snapshot;

/// One claim about a number, one about a ratio, and an order of two comparisons.
const CLAIMS: &str = "\
claim,text,source,experiments,inference,metric,statistic,relation,system,other,published,band_low,band_high,band_reason,\
pairs_needed,simulated_verdict,measured_verdict,evidence,machine,why,n,value,low,high,interval,median,median_low,\
median_high,below,below_low,below_high
tail,Small: 7.2 %.,paper,fig5,,p99-overhead,mean,within,tally,,0.072,0,0.15,Twice.,12,holds in simulation,not run,\
simulated,h200,,12,0.035,0.006,0.064,Student over pairs,0.015,0,0.062,,,
half,\"Half | or less.\",ours,fig5,,p99-overhead,mean,ratio,gate,mps,,0,0.5,None.,12,inconclusive,not run,simulated,h200,\
an end of the band lies within the interval,12,0.4,0.2,0.6,Fieller over pairs,0.3,0.1,0.7,11,0.615,0.998
order,Rising.,demo,fig5,,p99-overhead,mean,ascending,tally,tgs,,,1,Order.,6,missed in simulation,not run,simulated,h200,,6,\
1.5,1.1,2,Fieller over pairs,1.4,1,2.5,0,0,0.459
order,Rising.,demo,fig5,,p99-overhead,mean,ascending,tgs,mps,,,1,Order.,6,not run,not run,,,,0,,,,,,,,0,,
";

const MECHANISMS: &str = "\
mechanism,job,quantity,better,unit,baseline,with,overhead,machine,origin,source,reason
MPS alone,bert-infer,latency,lower,ms,2,2.15,0.075,h200,measured,150000 ns once per graph; H200,
hook,,latency,lower,,,,,h200,,,no runtime
slicing,bert-train,throughput,higher,1/s,20,19,0.05,h200,assumed,7000 ns per slice; common figure,
";

fn drawn(claims: &str, mechanisms: &str) -> impl Fn(&str) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("claims.csv"), claims).unwrap();
    fs::write(dir.path().join("mechanisms.csv"), mechanisms).unwrap();
    draw(dir.path(), &[], false).unwrap();
    move |name| fs::read_to_string(dir.path().join("tables").join(name)).unwrap()
}

/// Without the notes.
fn head(text: &str) -> String {
    text.split("\n\n- ").next().unwrap().to_owned()
}

#[test]
fn verdicts_as_readers_see_them() {
    let read = drawn(CLAIMS, MECHANISMS);
    assert_snapshot!(head(&read("table4.md")), @r#"
**SIMULATED (h200 model)**, not measured on a GPU.

# Claims and their verdicts

| claim | statement | source | compared | simulated | measured | why | published | accepted | value | 95 % interval | pairs | median over pairs | 95 % of it | first is below in | 95 % of the share |
| --- | --- | --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| tail | Small: 7.2 %. | paper | tally | holds in simulation | not run |  | 7.2 % | 0.0..15.0 % | 3.5 % | 0.6..6.4 % | 12 | 1.5 % | 0.0..6.2 % |  |  |
| half | Half \| or less. | ours | gate / mps | inconclusive | not run | an end of the band lies within the interval |  | 0.000..0.500 | 0.400 | 0.200..0.600 | 12 | 0.300 | 0.100..0.700 | 11 of 12 | 61.5..99.8 % |
| order | Rising. | demo | tally < tgs | missed in simulation | not run |  |  | at most 1.000 | 1.500 | 1.100..2.000 | 6 | 1.400 | 1.000..2.500 | 0 of 6 | 0.0..45.9 % |
| order |  | demo | tgs < mps | not run | not run |  |  | at most 1.000 |  |  | 0 |  |  |  |  |
"#);
    assert_snapshot!(read("table4.csv"), @r#"
claim,source,metric,statistic,relation,system,other,published,band_low,band_high,simulated_verdict,measured_verdict,evidence,machine,why,n,value,low,high,interval,median,median_low,median_high,below,below_low,below_high
tail,paper,p99-overhead,mean,within,tally,,0.072,0,0.15,holds in simulation,not run,simulated,h200,,12,0.035,0.006,0.064,Student over pairs,0.015,0,0.062,,,
half,ours,p99-overhead,mean,ratio,gate,mps,,0,0.5,inconclusive,not run,simulated,h200,an end of the band lies within the interval,12,0.4,0.2,0.6,Fieller over pairs,0.3,0.1,0.7,11,0.615,0.998
order,demo,p99-overhead,mean,ascending,tally,tgs,,,1,missed in simulation,not run,simulated,h200,,6,1.5,1.1,2,Fieller over pairs,1.4,1,2.5,0,0,0.459
order,demo,p99-overhead,mean,ascending,tgs,mps,,,1,not run,not run,,,,0,,,,,,,,0,,
"#);
    assert!(read("table4.md").ends_with("**SIMULATED (h200 model)**, not measured on a GPU.\n"));
}

#[test]
fn costs_as_readers_see_them() {
    let read = drawn(CLAIMS, MECHANISMS);
    assert_snapshot!(head(&read("table3.md")), @r#"
**SIMULATED (h200 model)**: inputs of the model, with origin and source; no result of a run.

# What each mechanism alone costs: inputs, with source

| mechanism | job | quantity | better | origin | source, or why there is no number | alone | with it | overhead |
| --- | --- | --- | --- | --- | --- | ---: | ---: | ---: |
| MPS alone | bert-infer | latency | lower | measured | 150000 ns once per graph; H200 | 2.000 ms | 2.150 ms | 7.5 % |
| hook |  | latency | lower |  | no runtime |  |  |  |
| slicing | bert-train | throughput | higher | assumed | 7000 ns per slice; common figure | 20.000 1/s | 19.000 1/s | 5.0 % |
"#);
    assert!(
        read("table3.md").ends_with("inputs of the model, with origin and source; no result of a run.\n")
    );
}

#[test]
fn a_measurement_is_not_labelled_simulated() {
    let measured = CLAIMS.replace(",simulated,h200", ",measured,h200");
    let read = drawn(&measured, MECHANISMS);
    let text = read("table4.md");
    assert!(text.starts_with("Measured on h200.") && !text.contains("SIMULATED"), "{text}");
    let nothing = CLAIMS.lines().next().unwrap();
    assert!(drawn(nothing, MECHANISMS)("table4.md").starts_with("No claim was run."));
}

#[test]
fn a_record_of_another_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |text: &str| {
        fs::write(dir.path().join("claims.csv"), text).unwrap();
        format!("{:#}", draw(dir.path(), &["claims".to_owned()], false).unwrap_err())
    };
    let error = refused(&CLAIMS.replace("band_low", "band_lowest"));
    assert!(
        error.contains("claims.csv, line 1: unknown columns [band_lowest], missing columns [band_low]"),
        "{error}"
    );
    let error = refused(&CLAIMS.replace("0.072", "0.072 %"));
    assert!(error.contains("line 2, column `published`: value `0.072 %` is not a number"), "{error}");
    assert!(!dir.path().join("tables").exists(), "nothing is written");
}
