import { NATIVE } from "../vectors/native.js";
import { eachVector } from "./folder.js";

eachVector("session3", NATIVE);
