import { suite } from "./suite.mjs";

suite("React", "../react-spa/dist/");
