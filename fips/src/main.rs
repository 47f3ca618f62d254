fn main() {
    println!("{:?}", aws_lc_rs::try_fips_mode());
}
