import { runFolder } from "../vectors/folder.js";
import { NATIVE } from "../vectors/native.js";

runFolder("session3", NATIVE);
